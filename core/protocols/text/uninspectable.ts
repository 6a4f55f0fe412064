// The error for text that a plugin cannot be shown.

/** A text cannot be read, or an edited one cannot be put back. The message tells operators why. */
export class Uninspectable extends Error {}
