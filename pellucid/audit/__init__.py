"""The privacy that is promised, measured; and what an attacker gets from what is released."""
