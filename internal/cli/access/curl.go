package access

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type curlFlags struct {
	Method  string   `short:"X" value-name:"METHOD" description:"HTTP method: GET, POST, PUT, PATCH or DELETE"`
	Data    *string  `short:"d" value-name:"BODY" description:"Request body, or @FILE"`
	Headers []string `short:"H" value-name:"NAME:VALUE" description:"Request header (can be repeated)"`
	Include bool     `short:"i" description:"Show response headers"`
	Fail    bool     `short:"f" long:"fail" description:"Exit with 22 on an HTTP error"`
	Output  string   `long:"output" value-name:"FILE" description:"Write the response to a file"`
}

// curlFailed is the exit code of curl --fail for an error status.
const curlFailed = 22

func sendRequest(ctx context.Context, s *core.Session, w core.Words, f *curlFlags) (core.Result, error) {
	call := client.Call{Method: strings.ToUpper(f.Method), URL: w["PATH"], Header: http.Header{}}
	if f.Data != nil {
		body := []byte(*f.Data)
		if file, ok := strings.CutPrefix(*f.Data, "@"); ok {
			var err error
			if body, err = os.ReadFile(s.Env.Path(file)); err != nil {
				return nil, err
			}
		}
		call.Body, call.ContentType = body, "application/json"
		call.Method = cmp.Or(call.Method, http.MethodPost)
	}
	call.Method = cmp.Or(call.Method, http.MethodGet)
	for _, h := range f.Headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, core.UsageError(fmt.Sprintf("-H %s has no colon: write NAME: VALUE", h))
		}
		call.Header.Set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	reply, err := s.API.Do(ctx, call)
	if reply == nil {
		return nil, err
	}
	var out bytes.Buffer
	if f.Include {
		fmt.Fprintf(&out, "HTTP/1.1 %d %s\n", reply.Status, http.StatusText(reply.Status))
		var names []string
		for name := range reply.Header {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&out, "%s: %s\n", name, strings.Join(reply.Header[name], ", "))
		}
		out.WriteByte('\n')
	}
	body := reply.Body
	if s.Env.OutTerminal || s.JSON { // indent for reading
		var pretty bytes.Buffer
		if json.Indent(&pretty, body, "", "  ") == nil {
			body = pretty.Bytes()
		}
	}
	out.Write(body)
	if f.Output != "" {
		if err := os.WriteFile(s.Env.Path(f.Output), out.Bytes(), 0o600); err != nil {
			return nil, err
		}
	} else {
		if out.Len() > 0 && out.Bytes()[out.Len()-1] != '\n' {
			out.WriteByte('\n')
		}
		if _, err := s.Out.Write(out.Bytes()); err != nil {
			return nil, err
		}
	}
	if f.Fail && reply.Status >= http.StatusBadRequest {
		return nil, &core.ExitError{Code: curlFailed}
	}
	return nil, nil //nolint:nilnil // already shown
}

func curlCommands() []*core.Command {
	return core.InGroup(core.GroupOther,
		core.Entry("curl", "PATH [-X METHOD] [-d BODY] [-H HEADER] [-i]", "Send a raw request to the API", core.NeedsAPI,
			sendRequest,
			"/v3/apps", `-X PATCH /v3/routes/GUID/destinations -d '{"destinations":[]}'`),
	)
}
