/** What was learned of the calls of each plugin instance, and serves the next ones. It never decides what a call proved. */
export interface CallGuide {
  /** A call begins; `subject` is what it is about, `policyMs` its time in the table of policies. */
  begin(
    plugin: string,
    instance: string,
    method: string,
    subject: string,
    policyMs: number,
    // The name of a gRPC code, and whether the plugin may have got the call.
  ): { readonly deadlineMs: number; readonly end: (code: string, sent: boolean) => void };
  /** The instance failed lately, and is given no new call before, by the monotonic clock, while another one can take it. */
  restsUntil(plugin: string, instance: string): number;
  /** Another process of the instance is there: what was learned of the one before does not hold it back. */
  renewed(plugin: string, instance: string): void;
  /** Why calls of the plugin are held back while this instance is its current one, for people. */
  held(plugin: string, instance: string): string | undefined;
}
