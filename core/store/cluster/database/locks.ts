// The numbers of the advisory locks of the database. They mean nothing, but no two locks may have the same one.

/** Those that the program takes. What files of the schema take stands there as a number, as these are never changed. */
export const locks = {
  /** One program at a time changes the schema. In the schema 7583102947 is that of who makes the tables of days. */
  schema: 7_583_102_946n,
  /**
   * Who corrects records waits for who writes those of others, and the reverse. `money_anchor_1` of the schema has
   * the number too, and leaves it to a later call where the lock is taken.
   */
  records: 7_583_102_948n,
  /** One gateway at a time adds the journal up. */
  spend: 7_583_102_949n
} as const
