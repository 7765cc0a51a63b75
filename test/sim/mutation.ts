/** A bug to plant: replaces `from`, which must occur exactly once in the file. */
export interface Mutation {
  readonly title: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
}
