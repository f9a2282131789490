//! The test's own connection to the database, past the server.

use bugle_pg::{Config, Conn, Pool, PoolOptions, Row, Schema, Statement, testdb};

use super::{On, until_true};

/// One connection.
pub(crate) struct Sql {
    conn: Conn,
    schema: Schema,
}

impl Sql {
    /// To the database where a server keeps its tables.
    pub(crate) async fn to(on: &On) -> Self {
        let options = PoolOptions { application_name: "test".into(), ..PoolOptions::default() };
        let pool = Pool::new(Config::parse(&testdb::server().await).unwrap(), options);
        Self { conn: pool.get().await.unwrap(), schema: Schema::new(on.schema()).unwrap() }
    }

    /// The same as another role.
    pub(crate) async fn by(on: &On, role: &str) -> Self {
        let address = testdb::server().await.replacen("postgres@", &format!("{role}@"), 1);
        let pool = Pool::new(Config::parse(&address).unwrap(), PoolOptions::default());
        Self { conn: pool.get().await.unwrap(), schema: Schema::new(on.schema()).unwrap() }
    }

    /// Why a statement is refused.
    pub(crate) async fn refused(&mut self, sql: &str) -> String {
        let refused = self.conn.execute_batch(&self.schema.fill(sql)).await;
        refused.expect_err(sql).to_string()
    }

    /// Statements without parameters; `{schema}` stands for the server's schema.
    pub(crate) async fn run(&mut self, sql: &str) {
        self.conn.execute_batch(&self.schema.fill(sql)).await.unwrap();
    }

    /// Rows of a question.
    pub(crate) async fn rows(&mut self, sql: &str) -> Vec<Row> {
        let statement = Statement::new(&self.schema, sql, &[]);
        self.conn.query(&statement, &[]).await.unwrap()
    }

    /// Wait until a question has an answer that is not empty.
    pub(crate) async fn until_some(&mut self, sql: &str) {
        until_true(sql, async || !self.rows(sql).await.is_empty()).await;
    }

    /// The channel that the servers tell each other by.
    pub(crate) fn channel(&self) -> String {
        format!("bugle_{}", self.schema.name())
    }
}
