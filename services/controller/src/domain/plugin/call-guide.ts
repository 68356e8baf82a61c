/** How a call ended, as far as it tells of the plugin and not of its subject. */
export interface CallEnd {
  /** A gRPC code's name. */
  readonly code: string;
  readonly sent: boolean;
}

/** What was learned of the calls of each plugin, and serves the next ones. It never decides what a call proved. */
export interface CallGuide {
  /** A call begins; `subject` is what it is about, `policyMs` its time in the table of policies. */
  begin(
    plugin: string,
    method: string,
    subject: string,
    policyMs: number,
  ): { readonly deadlineMs: number; readonly end: (end: CallEnd) => void };
  /** Why calls of the plugin are held back now, for people. */
  held(plugin: string): string | undefined;
}
