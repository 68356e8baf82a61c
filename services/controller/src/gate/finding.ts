/** What kind of thing keeps the store shut: each has a cure of its own. */
export const findingKinds = [
  /** It is not reached, or changes too often to be looked at. */
  "STORE",
  /** It belongs to another installation, or a node follows another history of it. */
  "OTHER_HISTORY",
  /** Nobody can say what is held. */
  "NO_WITNESS",
  /** A node that this controller knew is not in the store: nobody asks it what it holds. */
  "FORGOTTEN_NODE",
  /** A node did not promise the generation of the vetting. */
  "NOT_PROMISED",
  /** A controller did not promise it: what the plugins beside it are asked for waits, and nothing else. */
  "CONTROLLER",
  /** A node promised, and did not tell what it holds. */
  "NOT_TOLD",
  /** A node holds what the store does not know. */
  "HOLD",
  /** A plugin may have a call open that the store does not know. */
  "CALL",
] as const;
export type FindingKind = (typeof findingKinds)[number];

/** Something that keeps the store shut; what does not apply is empty. */
export interface Finding {
  readonly kind: FindingKind;
  readonly node: string;
  readonly namespace: string;
  readonly volume: string;
  readonly message: string;
}

export const finding = (kind: FindingKind, message: string, node = ""): Finding => ({
  kind,
  node,
  namespace: "",
  volume: "",
  message,
});
