/** A call that a plugin has not answered yet and that has lasted for a while: for people, and for nothing else. */
export interface CallUnderWay {
  readonly method: string;
  /** The plugin instance that has it. */
  readonly instance: string;
  readonly since: number;
  readonly deadline: number;
  /** 0: not known. */
  readonly attempt: number;
}
