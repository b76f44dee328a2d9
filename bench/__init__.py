"""What Crux costs beside the frameworks and peers it could have been built with: `make bench`."""
