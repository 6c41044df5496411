"""Joint energy models: JEM, JEM++, SADA-JEM, SVGD in JEM."""
