/** A bug to plant: replaces `from`, which must occur exactly once in the file. */
export interface Mutation {
  readonly title: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /**
   * The test that finds it, if the simulation cannot: it checks no time within which something has to
   * happen, as long as it does happen.
   */
  readonly unitTest?: UnitTest;
}

export interface UnitTest {
  readonly file: string;
  readonly title: string;
}
