/** An answer of a plugin: "no" is only ever said by the plugin, and "unknown" stops a call without refusing it. */
export type Tri = "yes" | "no" | "unknown";
