/** A Cluster with its name (field 1), and 101 bytes of an unknown field; `mark` makes its content differ. */
export const clusterBody = (name: string, mark: number): Buffer =>
  Buffer.concat([
    Buffer.from([0x0a, name.length]),
    Buffer.from(name),
    Buffer.from([0xfa, 0x7f, 101]),
    Buffer.alloc(100),
    Buffer.from([mark]),
  ]);
