"""Speed, measured as ratios within one run: `make bench`. Nothing here is asserted."""
