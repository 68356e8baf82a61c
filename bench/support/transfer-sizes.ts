/** As much as a message may have. */
export const transferBytes = 16 * 1024 * 1024 - 1024;

export const transferNode = "bench-node";
