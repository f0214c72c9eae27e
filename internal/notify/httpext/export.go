package httpext

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ingot/internal/notify"
)

// The types of an export, which the header Accept asks for.
const (
	typeCSV    = "text/csv"
	typeNDJSON = "application/x-ndjson"
)

// exportType returns which export a request asks for; "" if it wants a page.
func exportType(r *http.Request) string {
	for _, one := range strings.Split(r.Header.Get("Accept"), ",") {
		name, _, _ := strings.Cut(one, ";")
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case typeCSV, typeNDJSON:
			return name
		}
	}
	return ""
}

// exportPage is how many messages of an export are in memory.
const exportPage = 500

var csvHeading = []string{"id", "send_id", "status", "channel", "user_id", "email", "attempts", "updated_at", "reason"}

// exportMessages writes all messages that match, the newest first, or as many as the limit says.
func (f *handlers) exportMessages(w http.ResponseWriter, r *http.Request, query notify.MessageQuery, kind string,
	limited bool) error {
	left := query.Limit
	header := kind
	if kind == typeCSV {
		header += "; charset=utf-8; header=present"
		w.Header().Set("Content-Disposition", `attachment; filename="messages.csv"`)
	}
	return f.stream(w, r, header, func(out *bufio.Writer) error {
		row := f.ndjsonRow(out)
		if kind == typeCSV {
			var err error
			if row, err = f.csvRow(out); err != nil {
				return err
			}
		}
		for !limited || left > 0 {
			query.Limit = exportPage
			if limited {
				query.Limit = min(left, exportPage)
			}
			list, err := f.Store.FindMessages(r.Context(), query)
			if err != nil {
				return err
			}
			for _, m := range list {
				if err := row(m); err != nil {
					return err
				}
			}
			if len(list) < query.Limit {
				return nil
			}
			left -= len(list)
			query.After = list[len(list)-1].Number
		}
		return nil
	})
}

func (f *handlers) ndjsonRow(out *bufio.Writer) func(notify.Message) error {
	lines := json.NewEncoder(out)
	return func(m notify.Message) error {
		body := f.presentMessage(m)
		body.Links = nil
		return lines.Encode(struct {
			messageBody
			Links any `json:"_links,omitempty"`
		}{messageBody: body})
	}
}

func (f *handlers) csvRow(out *bufio.Writer) (func(notify.Message) error, error) {
	table := csv.NewWriter(out)
	write := func(cells []string) error {
		if err := table.Write(cells); err != nil {
			return err
		}
		table.Flush()
		return table.Error()
	}
	return func(m notify.Message) error {
		b := f.presentMessage(m)
		return write([]string{b.ID, b.SendID, string(b.Status), m.Channel.String(), cell(b.UserID),
			cell(cmp.Or(b.Email, b.Phone)), strconv.Itoa(b.Attempts), b.Updated.UTC().Format(time.RFC3339), cell(b.Reason)})
	}, write(csvHeading)
}

// cell makes a text harmless for programs that calculate what begins like a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
