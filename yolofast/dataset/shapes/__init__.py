"""The built-in data set: circles, stars, arrows … drawn with their labels."""
