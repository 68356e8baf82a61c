/** What every process of the floor does: says where it listens, in the way of the services. */
export const announce = (address: string): void => {
  process.stdout.write(`${JSON.stringify({ message: "ready", address })}\n`);
  process.once("SIGTERM", () => process.exit(0));
};
