// The numbers of all advisory locks of the database. They mean nothing, but no two locks may have the same one.

/** The locks. Files of the schema have the numbers of theirs as text, and a test compares them with these. */
export const locks = {
  /** One program at a time changes the schema. */
  schema: 7_583_102_946n,
  /** One node at a time makes the table of a day. Taken by functions of the schema. */
  days: 7_583_102_947n,
  /** Who corrects records waits for who writes those of others, and the reverse. */
  records: 7_583_102_948n,
  /** One gateway at a time adds the journal up. */
  spend: 7_583_102_949n,
  /** One node at a time writes an anchor. Taken by a function of the schema. */
  anchors: 7_583_102_950n,
  /** Client secrets of one key are counted one after another: the number is hashed with the key. Taken there, too. */
  clientSecrets: 7_583_102_951n,
  /** Batches queue for the balance that most of them count in: the first of two numbers. Taken by a function there. */
  busiest: 741n
} as const
