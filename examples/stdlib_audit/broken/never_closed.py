def total(amounts):
    return sum(amounts


def mean(amounts):
    return total(amounts) / len(amounts)
