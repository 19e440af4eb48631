"""How a project is doing, as one summary: pure, fed with records by whoever reads them."""
