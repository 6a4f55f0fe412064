// Characters of HTTP's grammar that are looked for in what is sent and in what comes.

/** A token (RFC 9110 §5.6.2), as the source of a regular expression. */
export const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
/** A whole name of a header. */
export const namePattern = new RegExp(`^${token}$`)
