"""Files written whole and read safely, whoever made them."""
