"""The SVGD thesis's tuning study; --help says more."""

from ebmjax.recipes.joint.tuning.command import main

if __name__ == "__main__":
    main()
