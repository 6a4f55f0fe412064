// The error of a text view for what it cannot show.

/** A text that nobody can read, or that cannot be put back. Its message says why, to operators. */
export class Uninspectable extends Error {}
