package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/fault"
)

// Format is the format of an API's error bodies.
type Format int

const (
	// FormatV3 is Cloud Foundry's {"errors":[{code,title,detail}]}.
	FormatV3 Format = iota
	// FormatNotifications is the notification service's {"errors":["…"]}.
	FormatNotifications
	// FormatNotificationsV2 is the same with the messages of its second
	// version.
	FormatNotificationsV2
	// FormatV2 is Cloud Foundry's v2 format.
	FormatV2
	// FormatOAuth is RFC 6749's {"error","error_description"}, as UAA writes it.
	FormatOAuth
	// FormatNetwork is {"error":"…"} of Cloud Foundry's policy server.
	FormatNetwork
	// FormatRouting is the {"name","message"} of Cloud Foundry's routing API.
	FormatRouting
	// FormatGit is plain text, which git shows to its user.
	FormatGit
)

// meaning is the response for an error code.
type meaning struct {
	status int
	number int    // Cloud Foundry's error number
	oauth  string // UAA's error word
}

// meanings maps error codes to responses.
var meanings = map[fault.Code]meaning{
	fault.Internal:               {http.StatusInternalServerError, 10001, "server_error"},
	fault.BadRequest:             {http.StatusBadRequest, 1004, "invalid_request"},
	fault.MessageParse:           {http.StatusBadRequest, 1001, "invalid_request"},
	fault.BadQuery:               {http.StatusBadRequest, 10005, "invalid_request"},
	fault.InvalidToken:           {http.StatusUnauthorized, 1000, "invalid_token"},
	fault.Unauthenticated:        {http.StatusUnauthorized, 10002, "unauthorized"},
	fault.Forbidden:              {http.StatusForbidden, 10003, "access_denied"},
	fault.FeatureDisabled:        {http.StatusForbidden, 330002, "access_denied"},
	fault.UnknownRoute:           {http.StatusNotFound, 10000, "not_found"},
	fault.NotFound:               {http.StatusNotFound, 10010, "not_found"},
	fault.MethodNotAllowed:       {http.StatusMethodNotAllowed, 10000, "method_not_allowed"},
	fault.NotAcceptable:          {http.StatusNotAcceptable, 1004, "not_acceptable"},
	fault.Conflict:               {http.StatusConflict, 10016, "conflict"},
	fault.PreconditionFailed:     {http.StatusPreconditionFailed, 1004, "precondition_failed"},
	fault.TooLarge:               {http.StatusRequestEntityTooLarge, 10004, "invalid_request"},
	fault.UnsupportedMedia:       {http.StatusUnsupportedMediaType, 1004, "invalid_request"},
	fault.Unprocessable:          {http.StatusUnprocessableEntity, 10008, "invalid_request"},
	fault.NotUnique:              {http.StatusUnprocessableEntity, 10016, "invalid_request"},
	fault.RateLimited:            {http.StatusTooManyRequests, 10013, "too_many_requests"},
	fault.AddressRateLimited:     {http.StatusTooManyRequests, 10014, "too_many_requests"},
	fault.BrokerRateLimited:      {http.StatusTooManyRequests, 10016, "too_many_requests"},
	fault.BadGateway:             {http.StatusBadGateway, 10001, "server_error"},
	fault.Unavailable:            {http.StatusServiceUnavailable, 10015, "temporarily_unavailable"},
	fault.TaskWorkersUnavailable: {http.StatusServiceUnavailable, 170020, "temporarily_unavailable"},
	fault.InstanceBusy:           {http.StatusConflict, 60016, "conflict"},
	fault.BindingBusy:            {http.StatusConflict, 90008, "conflict"},
	fault.NoInstances:            {http.StatusBadRequest, 220001, "invalid_request"},
	fault.NotEmpty:               {http.StatusBadRequest, 10006, "invalid_request"},
	fault.StillShared:            {http.StatusUnprocessableEntity, 390002, "invalid_request"},
	fault.SameRoute:              {http.StatusUnprocessableEntity, 130008, "invalid_request"},
	fault.BrokerNotRemovable:     {http.StatusUnprocessableEntity, 270010, "invalid_request"},
	fault.DeployingScale:         {http.StatusUnprocessableEntity, 390016, "invalid_request"},
	fault.DeployingUpdate:        {http.StatusUnprocessableEntity, 390017, "invalid_request"},
	fault.DeployingStop:          {http.StatusUnprocessableEntity, 390024, "invalid_request"},
	fault.BadBroker:              {http.StatusBadGateway, 10001, "server_error"},
	fault.InsufficientStorage:    {http.StatusInsufficientStorage, 10015, "temporarily_unavailable"},
}

// StatusOf returns the HTTP status for a code.
func StatusOf(c fault.Code) int { return meanings[c].status }

// Number returns Cloud Foundry's number for a code, for errors that are stored
// and shown later.
func Number(c fault.Code) int { return meanings[c].number }

// WriteError writes the response for err. An error without a code is logged
// with an id, and the response contains only that id.
func WriteError(w http.ResponseWriter, r *http.Request, f Format, log *slog.Logger, err error) {
	e := Explain(r.Context(), log, err)
	m, ok := meanings[e.Code]
	if !ok {
		m = meanings[fault.Internal]
	}
	if f == FormatV3 && e.Code == fault.MethodNotAllowed {
		m, e = meanings[fault.UnknownRoute], fault.New(fault.UnknownRoute, "Unknown request")
	}
	if f == FormatRouting {
		m, e = routingError(m, e)
	}
	h := w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if m.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", challenge(f, e))
	}
	h.Del("Content-Length")
	if f == FormatGit {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(m.status)
		_, _ = w.Write([]byte(strings.Join(e.Messages(), "\n") + "\n")) //nolint:gosec // plain text and nosniff
		return
	}
	WriteJSON(w, m.status, body(f, m, e))
}

// Explain logs err and returns what the user may see of it.
func Explain(ctx context.Context, log *slog.Logger, err error) *fault.Error {
	var tooLarge *http.MaxBytesError
	var e *fault.Error
	switch {
	case errors.As(err, &tooLarge):
		return fault.Wrap(err, fault.TooLarge, "The request body is larger than the %d bytes allowed here.", tooLarge.Limit)
	case errors.As(err, &e) && e.Code != fault.Internal:
		log.InfoContext(ctx, "request refused", "code", string(e.Code), "error", err)
		return e
	case machineFault(err) != nil:
		log.WarnContext(ctx, "request failed because of the machine", "error", err)
		return machineFault(err)
	}
	id := errorID()
	log.ErrorContext(ctx, "request failed", "error_id", id, "error", err)
	return fault.New(fault.Internal, "An unknown error occurred. Its id in the server's log is %s.", id)
}

// machineFault returns the error for a machine that has run out of something, or nil. It is for
// every path without a specific message.
func machineFault(err error) *fault.Error {
	switch {
	case fault.IsDiskFull(err):
		return fault.Wrap(err, fault.InsufficientStorage,
			"The disk of the server is full; nothing was stored. Try again after the operator has freed disk space.").
			After(30 * time.Second)
	case errors.Is(err, syscall.EROFS):
		return fault.Wrap(err, fault.Unavailable,
			"The disk of the server is read-only; nothing was stored. Try again after the operator has repaired it.").
			After(30 * time.Second)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fault.Wrap(err, fault.Unavailable, "The server has too many files open. Try again.").After(5 * time.Second)
	}
	return nil
}

func body(f Format, m meaning, e *fault.Error) any {
	switch f {
	case FormatNotifications, FormatNotificationsV2:
		return map[string]any{"errors": []string{notificationsMessage(f, e)}}
	case FormatV2:
		return map[string]any{"code": m.number, "description": strings.Join(e.Messages(), " "), "error_code": "CF-" +
			string(e.Code)}
	case FormatNetwork:
		return map[string]string{"error": strings.Join(e.Messages(), " ")}
	case FormatOAuth:
		out := map[string]string{"error": m.oauth, "error_description": strings.Join(e.Messages(), " ")}
		if e.Kind != "" {
			out["error"] = e.Kind
		}
		if len(e.Need) > 0 {
			out["scope"] = strings.Join(e.Need, " ")
		}
		return out
	case FormatRouting:
		return map[string]string{"name": string(e.Code) + "Error", "message": strings.Join(e.Messages(), " ")}
	default:
		type entry struct {
			Code   int    `json:"code"`
			Title  string `json:"title"`
			Detail string `json:"detail"`
		}
		entries := make([]entry, 0, 1+len(e.More))
		for _, message := range e.Messages() {
			entries = append(entries, entry{m.number, "CF-" + string(e.Code), message})
		}
		return map[string]any{"errors": entries}
	}
}

// routingError returns the error with the status and the words that clients of the
// routing API know: by them they refresh a token, or report a missing scope.
func routingError(m meaning, e *fault.Error) (meaning, *fault.Error) {
	switch e.Code {
	case fault.InvalidToken, fault.Unauthenticated:
		return m, fault.New(e.Code, "Token is expired")
	case fault.Forbidden:
		return meanings[fault.Unauthenticated], fault.New(fault.Unauthenticated,
			"You are not authorized to perform the requested action")
	}
	return m, e
}

// notificationsMessage returns the message in the notification service's
// format, whose clients look for these words when a token is rejected.
func notificationsMessage(f Format, e *fault.Error) string {
	const header = "Authorization header is invalid: "
	switch {
	case e.Code == fault.Unauthenticated:
		return header + "missing"
	case e.Code == fault.InvalidToken && f == FormatNotificationsV2:
		return header + "corrupt"
	case e.Code == fault.InvalidToken:
		return header + strings.TrimPrefix(strings.Join(e.Messages(), ", "), "Invalid Auth Token: ")
	}
	return strings.Join(e.Messages(), ", ")
}

// challenge returns the WWW-Authenticate header (RFC 6750, RFC 7617).
func challenge(f Format, e *fault.Error) string {
	if f == FormatGit {
		return `Basic realm="ingot"`
	}
	if f == FormatOAuth && e.Kind == "invalid_client" {
		return `Basic realm="oauth"`
	}
	if e.Code == fault.InvalidToken {
		return `Bearer realm="oauth", error="invalid_token"`
	}
	return `Bearer realm="oauth"`
}

// WriteJSON writes v as JSON with the given status.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// The status is already sent; nothing can be done if the client is gone.
	_ = json.NewEncoder(w).Encode(v)
}

// Answer responds with v as JSON, or without a body if the status is 204. If err is set it returns
// err instead, for the handler to return.
func Answer(w http.ResponseWriter, status int, v any, err error) error {
	switch {
	case err != nil:
		return err
	case status == http.StatusNoContent:
		w.WriteHeader(status)
	default:
		WriteJSON(w, status, v)
	}
	return nil
}

func errorID() string {
	var b [6]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
