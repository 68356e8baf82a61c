/** How much is asked of a plugin. */
export interface PluginLoad {
  readonly breaker: "closed" | "open" | "half-open";
  /** Calls that hold a slot. */
  readonly running: number;
  /** Calls at once now, and by the profile. */
  readonly limit: number;
  readonly most: number;
  /** Instances that do not answer, and why they are taken for silent. */
  readonly silent: readonly { readonly id: string; readonly why: string }[];
}
