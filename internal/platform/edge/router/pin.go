package router

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Headers with which a client selects an instance of an app or of one of its processes.
const (
	headerAppInstance     = "X-Cf-App-Instance"
	headerProcessInstance = "X-Cf-Process-Instance"

	errInvalidAppInstance     = "invalid_cf_app_instance_header"
	errInvalidProcessInstance = "invalid_cf_process_instance_header"
)

// pin is the instance that a request selects; the zero value selects none.
type pin struct {
	process bool   // guid is a process guid
	guid    string // of an app or a process
	index   string // digits; "" means any, of a process only
}

// wanted returns the instance that the headers of a request select. It answers with an
// error and returns false if a header is not "GUID:INDEX", or "GUID" for a process. As in
// gorouter the app header takes precedence.
func (x *exchange) wanted(h http.Header) (p pin, ok bool) {
	if value := h.Get(headerAppInstance); value != "" {
		if p, ok = parsePin(value); !ok || p.index == "" {
			x.refuse(http.StatusBadRequest, errInvalidAppInstance, "Invalid X-CF-App-Instance Header")
			return p, false
		}
		return p, true
	}
	if value := h.Get(headerProcessInstance); value != "" {
		if p, ok = parsePin(value); !ok {
			x.refuse(http.StatusBadRequest, errInvalidProcessInstance, "Invalid X-CF-Process-Instance Header")
			return p, false
		}
		p.process = true
	}
	return p, true
}

func parsePin(value string) (p pin, ok bool) {
	guid, index, indexed := strings.Cut(value, ":")
	if !isGUID(guid) {
		return p, false
	}
	p = pin{guid: guid, index: index}
	if !indexed {
		return p, true
	}
	return p, index != "" && strings.Trim(index, "0123456789") == ""
}

// isGUID reports whether s has the form of a guid in lower case.
func isGUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// is reports whether b is the selected backend.
func (p pin) is(b Backend) bool {
	guid := b.AppGUID
	if p.process {
		guid = b.ProcessGUID
	}
	return guid == p.guid && (p.index == "" || strconv.Itoa(b.Index) == p.index)
}

// missing answers that the route, or the selected instance of it, does not exist.
func (p pin) missing(x *exchange) {
	status := http.StatusBadRequest
	var message string
	switch host := x.access.Host; {
	case p.guid == "":
		status, message = http.StatusNotFound, fmt.Sprintf("Requested route ('%s') does not exist.", host)
	case !p.process:
		message = fmt.Sprintf("Requested instance ('%s') with guid ('%s') does not exist for route ('%s')", p.index,
			p.guid, host)
	case p.index == "":
		message = fmt.Sprintf("Requested instance with process guid ('%s') does not exist for route ('%s')", p.guid, host)
	default:
		message = fmt.Sprintf("Requested instance ('%s') with process guid ('%s') does not exist for route ('%s')", p.index,
			p.guid, host)
	}
	x.refuse(status, errUnknownRoute, message)
}
