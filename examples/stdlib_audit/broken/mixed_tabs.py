def steps(count):
    for step in range(count):
	print(step)
        print("done")
