# -*- coding: ebcdic-of-the-moon -*-

PLANETS = ["Mercury", "Venus"]
