package dump

import (
	"slices"
	"strings"
	"testing"
)

func TestScript(t *testing.T) {
	t.Parallel()
	own := "DEFINER=`owner`@`%`"
	const text = "/*M!999999\\- enable the sandbox mode */ \n-- it's\n\nCREATE TABLE `a\n;` (\n x text DEFAULT " +
		"';\\'\n;\n');\n" +
		"INSERT INTO `t` VALUES\n('CREATE DEFINER=`u`@`%` VIEW;');\n" +
		"/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`u`@`%` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS " +
		"select 'DEFINER=`u`@`%`' */;\n" +
		"DELIMITER ;;\n/*!50003 SET x */ ;;\n/*!50106 CREATE*/ /*!50117 DEFINER=`u``@`@`%`*/ /*!50106 EVENT `e` DO SELECT " +
		"1 */ ;;\n/*!50106 DROP EVENT IF EXISTS `f` */;;\nDELIMITER ;;\n" +
		"CREATE DEFINER=\"u\"@\"%\" PROCEDURE \"p\"()\nBEGIN\n  -- it's;;\n  SELECT 1 AS\ndelimiter ;\n  SELECT " +
		"'DEFINER=`u`@`%`';\nEND\n;;\nDELIMITER ;\nCREATE PROCEDURE `DEFINER=``u``` () SELECT 1;\nincomplete"
	want := []string{
		"CREATE TABLE `a\n;` (\n x text DEFAULT ';\\'\n;\n')", "INSERT INTO `t` VALUES\n('CREATE DEFINER=`u`@`%` VIEW;')",
		"/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 " + own +
			" SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select 'DEFINER=`u`@`%`' */",
		"/*!50003 SET x */ ", "/*!50106 CREATE*/ /*!50117 " + own + "*/ /*!50106 EVENT `e` DO SELECT 1 */ ",
		"/*!50106 DROP EVENT IF EXISTS `f` */",
		"CREATE " + own +
			" PROCEDURE \"p\"()\nBEGIN\n  -- it's;;\n  SELECT 1 AS\ndelimiter ;\n  SELECT 'DEFINER=`u`@`%`';\nEND\n",
		"CREATE PROCEDURE `DEFINER=``u``` () SELECT 1", "incomplete",
	}
	var got []string
	for s := NewScript(strings.NewReader(text)); ; {
		statement, err := s.Next()
		if err != nil {
			break
		}
		got = append(got, Redefined(statement, "owner"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := Described(want[4]); got != "CREATE EVENT `e` DO SELECT 1" {
		t.Errorf("an event is called %q", got)
	}
}

func TestLostIsLimited(t *testing.T) {
	t.Parallel()
	var said RestoreErrors
	for _, text := range []string{
		"pg_restore: while PROCESSING TOC:\npg_restore: from TOC entry 7; 3079 16 EXTENSION x\x1b[2J " +
			"ingotadmin\npg_restore: error: could not execute query: ERROR:  no\nCommand was: CREATE\n",
		"pg_restore: warning: errors ignored on restore: 3\n"} {
		if _, err := said.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	missing := said.Lost()
	if got := strings.Join(missing.List(), "|"); got != "EXTENSION x [2J ingotadmin: ERROR:  no|and 2 more" {
		t.Errorf("got %q", got)
	}
	for range 2 * maxLost {
		missing.Add(strings.Repeat("x", 2*maxLostText), "why")
	}
	if got := missing.List(); len(got) != maxLost+1 || len(got[1]) > 2*maxLostText {
		t.Errorf("%d lines, %q", len(got), got[1])
	}
}

func TestDumpMessages(t *testing.T) {
	t.Parallel()
	const view = "mariadb-dump: Couldn't execute 'SHOW FIELDS FROM `v\nw`': View 'd.v\nw' references invalid table(s) " +
		"(1356)\n"
	for _, c := range []struct{ text, lost, failure string }{
		{view, "`v w`: View 'd.v w' references invalid table(s) (1356)", ""},
		{
			"Error: Couldn't read status information for table c ()\nmariadb-dump: Couldn't execute 'show create table `c`': " +
				"Table 'k.c' doesn't exist (1146)\n" + view,
			"`c`: Table 'k.c' doesn't exist (1146)|`v w`: View 'd.v w' references invalid table(s) (1356)", "",
		},
		{
			view +
				"mariadb-dump: Couldn't execute 'SELECT /*!40001 SQL_NO_CACHE */ `n` FROM `b`': Lost connection to server during " +
				"query (2013)\n" +
				"mariadb-dump: Couldn't execute 'ROLLBACK TO SAVEPOINT sp': Server has gone away (2006)\n",
			"`v w`: View 'd.v w' references invalid table(s) (1356)",
			"Couldn't execute 'SELECT /*!40001 SQL_NO_CACHE */ `n` FROM `b`': Lost connection to server during query (2013)",
		},
		{"mariadb-dump: Error 1412: Table definition has changed when dumping table `t` at row: 0\n", "",
			"Error 1412: Table definition has changed when dumping table `t` at row: 0"},
	} {
		for _, size := range []int{1, 7, len(c.text)} { // of what is written at once
			var d dumpMessages
			for rest := c.text; rest != ""; rest = rest[min(size, len(rest)):] {
				if _, err := d.Write([]byte(rest[:min(size, len(rest))])); err != nil {
					t.Fatal(err)
				}
			}
			d.end()
			if got := strings.Join(d.missing.List(), "|"); got != c.lost || d.failure != c.failure {
				t.Errorf("lost %q, failure %q, want %q, %q", got, d.failure, c.lost, c.failure)
			}
		}
	}
	var d dumpMessages
	long := "mariadb-dump: Couldn't execute 'SELECT " + strings.Repeat("`n`, ", maxDumpMessage) +
		" FROM `b`': gone (1146)\n"
	for range 3 {
		if _, err := d.Write([]byte(long)); err != nil || len(d.rest) > maxDumpMessage {
			t.Fatalf("keeps %d bytes, %v", len(d.rest), err)
		}
	}
	d.end()
	if len(d.missing.List()) != 3 || d.failure != "" {
		t.Errorf("lost %d, failure %q", len(d.missing.List()), d.failure)
	}
}
