type Method = (...given: readonly unknown[]) => unknown;

/** What a call answers before it is known whether its method answers once or as a stream: a promise and a stream in one. */
const lateAnswer = (begun: Promise<unknown>): Promise<unknown> & AsyncIterable<unknown> =>
  Object.assign(begun, {
    async *[Symbol.asyncIterator]() {
      yield* (await begun) as AsyncIterable<unknown>;
    },
  });

/** A client that is loaded with its first call, so that a command pays for the services that it calls and for no other. */
export const lateClient = <Client extends object>(load: () => Promise<Client>): Client => {
  let loading: Promise<Client> | undefined;
  const call = async (method: string, given: readonly unknown[]): Promise<unknown> => {
    loading ??= load();
    const client = (await loading) as Readonly<Record<string, Method>>;
    return client[method]?.(...given);
  };
  const methods = {
    // Without `then`: the client itself is no promise.
    get: (_: object, method: string | symbol) =>
      typeof method === "symbol" || method === "then"
        ? undefined
        : (...given: readonly unknown[]) => lateAnswer(call(method, given)),
  };
  return new Proxy({}, methods) as Client;
};
