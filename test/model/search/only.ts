/** Where the model promises nothing: a member that no step needs throws when it is used. */
export const only = <T extends object>(name: string, members: object): T =>
  new Proxy(members, {
    get(target, member) {
      if (member in target) return Reflect.get(target, member);
      throw new Error(`the model has no ${name}.${String(member)}`);
    },
  }) as T;
