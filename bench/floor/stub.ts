/** A service of which only these methods are ever called. */
export const stub = <Full extends object, Part extends Partial<Full> = Partial<Full>>(part: Part): Full =>
  new Proxy(part, {
    get: (target, name, receiver) =>
      Reflect.get(target, name, receiver) ?? (() => Promise.reject(new Error(`${String(name)} is not of the floor`))),
  }) as unknown as Full;
