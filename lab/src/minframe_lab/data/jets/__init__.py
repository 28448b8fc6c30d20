"""Jets of top quarks and of light quarks and gluons: made with Pythia and fastjet, kept in the reference layout."""
