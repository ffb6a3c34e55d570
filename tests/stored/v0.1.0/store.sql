BEGIN TRANSACTION;
CREATE TABLE events (
    number INTEGER PRIMARY KEY, sandbox_id TEXT NOT NULL,
    at REAL NOT NULL, kind TEXT NOT NULL, message TEXT NOT NULL);
INSERT INTO "events" VALUES(1,'834b8131-8b47-477e-ae40-400fe5219182',1.79494996978021454812e+09,'Created','image host');
INSERT INTO "events" VALUES(2,'834b8131-8b47-477e-ae40-400fe5219182',1.79494996989421129224e+09,'Started','');
INSERT INTO "events" VALUES(3,'74ea7205-80a6-4e00-a7a4-6423d89eb3de',1.79494996990264201169e+09,'Created','image host');
INSERT INTO "events" VALUES(4,'74ea7205-80a6-4e00-a7a4-6423d89eb3de',1.79494997003188014035e+09,'Started','');
INSERT INTO "events" VALUES(5,'74ea7205-80a6-4e00-a7a4-6423d89eb3de',1.79494997004667448999e+09,'Paused','');
INSERT INTO "events" VALUES(6,'eab77aa9-c37a-4e8f-8c68-737145760751',1.7949499700514185428e+09,'Created','image host');
INSERT INTO "events" VALUES(7,'eab77aa9-c37a-4e8f-8c68-737145760751',1.7949499701203417778e+09,'Started','');
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "facts" VALUES('data_dir','mZXgaQl_CK_UIvOXrxLySUjU_ecWHfgE_8I2ZCVQ3KM');
CREATE TABLE idempotency (
    key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL,
    sandbox_id TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
INSERT INTO "idempotency" VALUES('0e39d244f76cf3a541fb6ccbfe2d97cd','146849567a018e27333be2557fafb8678eb90e8a77f1c9f9c7c73d6834bbe15a','834b8131-8b47-477e-ae40-400fe5219182',1.79494996978021454812e+09);
INSERT INTO "idempotency" VALUES('0f5af4328a6f7c25aaa504ba5c6c4dff','71ea20b8a4fff80708b45907257ed0a026dcd4b5d759bf3c41747e4e40d13204','74ea7205-80a6-4e00-a7a4-6423d89eb3de',1.79494996990264201169e+09);
INSERT INTO "idempotency" VALUES('18c75f2c76090316094447b506d9e498','4b30f82ea37979990998424e224d8df318f9aa36c341cb5c7b5cf8f1d6035cf6','eab77aa9-c37a-4e8f-8c68-737145760751',1.7949499700514185428e+09);
CREATE TABLE sandboxes (id TEXT PRIMARY KEY, wanted TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "sandboxes" VALUES('74ea7205-80a6-4e00-a7a4-6423d89eb3de','{"id":"74ea7205-80a6-4e00-a7a4-6423d89eb3de","image":"host","entrypoint":["tail","-f","/dev/null"],"created_at":"2026-11-17T21:12:49.902488+00:00","expires_at":null,"env":{},"metadata":{},"extensions":{},"platform":null,"resources":{"cpus":1.0,"memory_bytes":2147483648,"pids":null,"disk_bytes":null},"isolation":null,"has_network":true,"is_readonly":false,"execd_token":"4VvcxTx8dTlqAiMLQufhOE0m1Zqzm2HM","secure_token":"","has_answered":true,"is_repeatable":true}');
INSERT INTO "sandboxes" VALUES('834b8131-8b47-477e-ae40-400fe5219182','{"id":"834b8131-8b47-477e-ae40-400fe5219182","image":"host","entrypoint":["tail","-f","/dev/null"],"created_at":"2026-11-17T21:12:49.780033+00:00","expires_at":"2126-10-24T21:12:49.780033+00:00","env":{"GREETING":"gr\u00fc\u00df dich"},"metadata":{"purpose":"stored"},"extensions":{},"platform":null,"resources":{"cpus":0.5,"memory_bytes":268435456,"pids":null,"disk_bytes":null},"isolation":null,"has_network":true,"is_readonly":false,"execd_token":"vbhjs8lYSvHfUXF3tdFGyJOhL6qxOWqJ","secure_token":"","has_answered":true,"is_repeatable":true}');
INSERT INTO "sandboxes" VALUES('eab77aa9-c37a-4e8f-8c68-737145760751','{"id":"eab77aa9-c37a-4e8f-8c68-737145760751","image":"host","entrypoint":["sh","-c","exit 3"],"created_at":"2026-11-17T21:12:50.051236+00:00","expires_at":null,"env":{},"metadata":{},"extensions":{},"platform":null,"resources":{"cpus":1.0,"memory_bytes":2147483648,"pids":null,"disk_bytes":null},"isolation":null,"has_network":true,"is_readonly":false,"execd_token":"57P0Oqu1j33tparP6azO2XdyudCIC_K_","secure_token":"","has_answered":true,"is_repeatable":true}');
CREATE INDEX events_of ON events (sandbox_id, number);
CREATE INDEX idempotency_by_age ON idempotency (at);
COMMIT;
PRAGMA user_version = 1;
