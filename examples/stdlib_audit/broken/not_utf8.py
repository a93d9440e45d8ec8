def greet(name):
    return "Grüß dich, " + name
