"""Files written whole or not at all, archives without pickle, and content hashes."""
