package dump

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"ingot/internal/base/pattern"
)

// MariaDBProgram saves databases of MariaDB.
const MariaDBProgram = "mariadb-dump"

// MariaDB runs mariadb-dump with --force. What it cannot read because the tenant broke it is
// returned, and any other message is an error.
func MariaDB(cmd *exec.Cmd, w io.Writer) (Lost, error) {
	var said dumpMessages
	cmd.Stdout, cmd.Stderr = w, &said
	err := cmd.Run()
	said.end()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return said.missing, nil
	case said.failure != "":
		return Lost{}, fmt.Errorf("%s: %w: %s", MariaDBProgram, err, said.failure)
	case errors.As(err, &exit) && exit.Exited() && len(said.missing.first) > 0:
		return said.missing, nil
	}
	return Lost{}, fmt.Errorf("%s: %w", MariaDBProgram, err)
}

// dumpMessages reads what mariadb-dump writes about errors. A tenant controls how much that
// is, so it keeps a part of the message that has begun, and what the others mean.
type dumpMessages struct {
	rest    []byte
	missing Lost
	failure string // the first
}

// maxDumpMessage limits a message, which contains a name of the tenant several times, or
// the names of all columns of a table. Its end has the number of the error.
const maxDumpMessage = 16 << 10

// A message follows one of these. Names can contain newlines, too.
var dumpMessage = pattern.OnUse(`\n(?:` + MariaDBProgram + `|Error): `)

func (d *dumpMessages) Write(p []byte) (int, error) {
	d.rest = append(d.rest, p...)
	for {
		at := dumpMessage().FindIndex(d.rest)
		if at == nil {
			break
		}
		d.read(string(d.rest[:at[0]]))
		d.rest = append(d.rest[:0], d.rest[at[0]+1:]...)
	}
	if extra := len(d.rest) - maxDumpMessage; extra > 0 {
		d.rest = slices.Delete(d.rest, maxDumpMessage/2, maxDumpMessage/2+extra)
	}
	return len(p), nil
}

func (d *dumpMessages) end() {
	if rest := bytes.TrimSpace(d.rest); len(rest) > 0 {
		d.read(string(rest))
	}
}

var (
	// These messages are about a statement that the server refused. The numbers:
	//
	//	1142, 1143, 1370  permission on a table, column or routine denied
	//	1146              the table does not exist any more
	//	1168              tables of a merge table cannot be used
	//	1356              a view refers to what does not exist
	//	1449              the definer does not exist
	//	1462              a view refers to itself
	refusedDump = pattern.OnUse(`(?s)^` + MariaDBProgram +
		`: Couldn't execute '(.*?)': (.* \((?:1142|1143|1146|1168|1356|1370|1449|1462)\))$`)
	// A table was deleted after the list of tables was read. A message with 1146 follows.
	goneTable = pattern.OnUse(`(?s)^Error: Couldn't read status information for table .* \(\)$`)
)

// read decides what a message means.
func (d *dumpMessages) read(text string) {
	if goneTable().MatchString(text) {
		return
	}
	if found := refusedDump().FindStringSubmatch(text); found != nil {
		// The statement ends with the name of the object, in quotes.
		d.missing.Add(found[1][max(0, strings.IndexByte(found[1], '`')):], found[2])
		return
	}
	if d.failure == "" {
		d.failure = strings.TrimPrefix(text, MariaDBProgram+": ")
	}
}
