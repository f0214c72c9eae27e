package dump

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"ingot/internal/base/pattern"
)

// MaxPacket is the largest statement that any server accepts.
const MaxPacket = 1 << 30

// Script splits the output of mariadb-dump into statements.
//
// The tenant wrote the text of routines, triggers and events. It may look like the end of a
// statement: then the rest is executed as the tenant's statements, with its rights, and
// fails.
type Script struct {
	from      *bufio.Reader
	ahead     []byte // a line that was read too early
	delimiter []byte
}

// NewScript reads a dump.
func NewScript(r io.Reader) *Script {
	return &Script{from: bufio.NewReaderSize(r, 1<<20), delimiter: plainEnd}
}

var (
	plainEnd = []byte(";")
	command  = []byte("DELIMITER ")
	comment  = []byte("--")
	sandbox  = []byte(`/*M!999999\-`) // for the program mariadb
	// A view that refers to what does not exist. The only comment whose names are as they
	// are, with newlines.
	brokenView = []byte("-- failed on view `")
	// The lines that follow the text of a routine, a trigger or an event.
	following = [][]byte{command, []byte("/*!50003 SET "), []byte("/*!50106 ")}

	// ErrLongStatement means that the dump cannot be read further.
	ErrLongStatement = errors.New("a statement is longer than a server accepts")
)

// Next returns the next statement, and io.EOF at the end.
func (s *Script) Next() (string, error) {
	var text []byte
	var in byte // the quote of a text that has not ended
	for {
		line, err := s.line()
		if err != nil {
			if errors.Is(err, io.EOF) && len(text) > 0 {
				return string(text), nil // the server refuses what is not complete
			}
			return "", err
		}
		if len(text) == 0 {
			bare := bytes.TrimSpace(line)
			if to, ok := bytes.CutPrefix(bare, command); ok {
				s.delimiter = bytes.Clone(to)
				continue
			}
			if bytes.HasPrefix(bare, brokenView) {
				if err := s.skipNames(line); err != nil {
					return "", err
				}
				continue
			}
			if len(bare) == 0 || bytes.HasPrefix(bare, comment) || bytes.HasPrefix(bare, sandbox) {
				continue
			}
		}
		if text = append(text, line...); len(text) > MaxPacket {
			return "", ErrLongStatement
		}
		end, found := bytes.CutSuffix(bytes.TrimRight(text, " \r\n"), s.delimiter)
		if bytes.Equal(s.delimiter, plainEnd) {
			in = quoted(line, in)
			found = found && in == 0
		} else if found {
			found = s.follows()
		}
		if found {
			return string(end), nil
		}
	}
}

// skipNames reads the rest of a line whose names contain newlines.
func (s *Script) skipNames(line []byte) (err error) {
	in := quoted(line, 0)
	for err == nil && in != 0 {
		if line, err = s.line(); err == nil {
			in = quoted(line, in)
		}
	}
	return err
}

// follows reports whether the next line can follow the text of a routine. Quotes tell
// nothing there: what they mean depends on the SQL mode of the routine.
func (s *Script) follows() bool {
	line, err := s.line()
	if err != nil {
		return errors.Is(err, io.EOF)
	}
	s.ahead = line
	return slices.ContainsFunc(following, func(begin []byte) bool { return bytes.HasPrefix(line, begin) })
}

// line returns a line with its end.
func (s *Script) line() ([]byte, error) {
	if line := s.ahead; line != nil {
		s.ahead = nil
		return line, nil
	}
	var line []byte
	for {
		part, err := s.from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > MaxPacket:
			return nil, ErrLongStatement
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// quoted returns the quote that is open at the end of a line, where in is that at its
// beginning; 0 means none.
func quoted(line []byte, in byte) byte {
	for n := 0; n < len(line); n++ {
		switch c := line[n]; {
		case in == 0 && (c == '\'' || c == '"' || c == '`'):
			in = c
		case in != 0 && c == in:
			in = 0
		case c == '\\' && in != 0 && in != '`':
			n++
		}
	}
	return in
}

// The definer in a statement that creates a view, a trigger, a routine or an event. Before
// it there are no names or texts: those begin with a quote.
var (
	definer = pattern.OnUse("^((?:/\\*M?!\\d+ )?CREATE\\b[^`'\"]*?\\bDEFINER=)" + quotedName + "(?:@" +
		quotedName + ")?")
	versionMark   = pattern.OnUse(`/\*M?!\d+ ?|\*/`)
	quotedName    = "(?:`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*')"
	definerClause = pattern.OnUse("DEFINER=[^ ]* ?")
)

// Redefined makes the owner the definer of an object, as when a binding is removed. Only a user with
// rights on the whole server may set another definer than itself.
func Redefined(statement, owner string) string {
	at := definer().FindStringSubmatchIndex(statement)
	if at == nil {
		return statement
	}
	return statement[:at[3]] + "`" + owner + "`@`%`" + statement[at[1]:]
}

// Described names the object of a statement.
func Described(statement string) string {
	const enough = 100
	text := definerClause().ReplaceAllLiteralString(versionMark().ReplaceAllLiteralString(
		statement[:min(len(statement), 4*enough)], ""), "")
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "")
	if short := []rune(text); len(short) > enough {
		return string(short[:enough]) + "…"
	}
	return text
}
