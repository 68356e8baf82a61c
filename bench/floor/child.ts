/** What every process of the floor does: says where it listens, in the way of the services. */
export const announce = (address: string): void => {
  process.stdout.write(`${JSON.stringify({ msg: "ready", address })}\n`);
  process.once("SIGTERM", () => process.exit(0));
};

/** A service of which only these methods are ever called. */
export const only = <Full extends object, Part extends Partial<Full> = Partial<Full>>(part: Part): Full =>
  new Proxy(part, {
    get: (target, name, receiver) =>
      Reflect.get(target, name, receiver) ?? (() => Promise.reject(new Error(`${String(name)} is not of the floor`))),
  }) as unknown as Full;
