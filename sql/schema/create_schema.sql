-- Makes the schema, unless it is there. Asked first: "if not exists" demands the right to create even then.
create schema if not exists :"schema"
