/** The place of a commit among all of its cell, over all records: a later commit has a higher sequence, or a higher generation. */
export interface CommitOrder {
  readonly gen: number;
  readonly sequence: number;
}

/** What a call that changes something carries to the holder of the plugin's socket, which refuses one that a later call has overtaken. */
export interface CallOrder extends CommitOrder {
  /** Of the intent that the attempt was stored for. */
  readonly opId: string;
  /** The life of the gate that the call is for; absent: no gate compares it. */
  readonly gate?: string | undefined;
  /** The subjects of all calls about the same thing: the plugin knows it by its name and by its id, and by the name alone nobody knows the id. */
  readonly knownAs?: readonly string[] | undefined;
}
