/** How much is asked of a plugin. */
export interface PluginLoad {
  readonly breaker: "closed" | "open" | "half-open";
  /** Calls that hold a slot. */
  readonly running: number;
  /** Calls at once now, and by the profile. */
  readonly limit: number;
  readonly most: number;
}
