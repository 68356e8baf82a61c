// A failure the user can act on: it is printed as it stands, without a stack.

export class Problem extends Error {
  /** @param {string} message what is wrong and what to do next  @param {number} exitCode */
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Prints a failure and answers the exit code it stands for. */
export function reportFailure(error) {
  if (error instanceof Problem) {
    console.error(`\nholdfast: ${error.message}`);
    return error.exitCode;
  }
  console.error(error);
  return 1;
}
