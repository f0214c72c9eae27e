package osb

import (
	"fmt"
	"net/http"
)

// Outcome says how a call went, as far as the platform has to know.
type Outcome int

// The outcomes. Those from Refused on come with a *Error.
const (
	// Done: the broker did it.
	Done Outcome = iota
	// Accepted: the broker does it, and wants to be asked.
	Accepted
	// Working: it still does.
	Working
	// Gone: there is no such thing (any more).
	Gone
	// Refused: the broker did not do it, and said so.
	Refused
	// Busy: something else is being done to the same thing.
	Busy
	// Unavailable: the broker has not seen the request.
	Unavailable
	// Unknown: the broker may have done it or not.
	Unknown
)

// String names the outcome.
func (o Outcome) String() string {
	return [...]string{"done", "accepted", "working", "gone", "refused", "busy", "unavailable", "unknown"}[o]
}

// Error is a call that did not do what it should.
type Error struct {
	Outcome Outcome
	// Title is Cloud Foundry's name of it.
	Title string
	// Message is for the user; it never holds secrets.
	Message string
	// Status is that of the answer, if there was one.
	Status int
	Err    error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// failure makes an error of an answer that is not what was hoped for. outcome
// is that of answers which leave open what happened.
func (r *reply) failure(b Broker) *Error {
	var said struct {
		Error       string `json:"error"`
		Description string `json:"description"`
	}
	readable := decode(r.body, &said) == nil
	words := clean(said.Description)
	switch {
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden && !readable:
		return &Error{Outcome: Refused, Status: r.status, Title: "ServiceBrokerApiAuthenticationFailed",
			Message: fmt.Sprintf("Authentication with the service broker '%s' failed. Check the user name and password it was registered with.", b.Name)}
	case r.status == http.StatusUnprocessableEntity && said.Error == "ConcurrencyError":
		return &Error{Outcome: Busy, Status: r.status, Title: "AsyncServiceInstanceOperationInProgress",
			Message: "The service broker rejected the request due to an operation being in progress for the service instance or binding."}
	case r.status == http.StatusUnprocessableEntity && said.Error == "AsyncRequired":
		return &Error{Outcome: Refused, Status: r.status, Title: "AsyncRequired",
			Message: "This service plan requires client support for asynchronous service operations."}
	case r.status == http.StatusUnprocessableEntity && said.Error == "RequiresApp":
		return &Error{Outcome: Refused, Status: r.status, Title: "AppRequired",
			Message: "This service supports generation of credentials through binding an application only."}
	case r.status == http.StatusUnprocessableEntity && said.Error == "MaintenanceInfoConflict":
		return &Error{Outcome: Refused, Status: r.status, Title: "MaintenanceInfoConflict",
			Message: "The maintenance information of the plan has changed. Ask an administrator to update the broker's catalog, then try again."}
	case r.status == http.StatusConflict:
		return &Error{Outcome: Refused, Status: r.status, Title: "ServiceBrokerConflict", Message: "Service broker error: " + orElse(words, "there is one of this id already that differs")}
	case r.status == http.StatusGone:
		return &Error{Outcome: Gone, Status: r.status, Title: "ServiceBrokerRequestRejected", Message: "Service broker error: " + orElse(words, "it does not exist any more")}
	case r.status >= 400 && r.status < 500:
		return &Error{Outcome: Refused, Status: r.status, Title: "ServiceBrokerRequestRejected", Message: "Service broker error: " + orElse(words, fmt.Sprintf("the request was rejected with status %d", r.status))}
	case r.status >= 500:
		return &Error{Outcome: Unknown, Status: r.status, Title: "ServiceBrokerBadResponse", Message: "Service broker error: " + orElse(words, fmt.Sprintf("the broker failed with status %d", r.status))}
	}
	return r.garbage(b, fmt.Errorf("status %d is not one of the expected", r.status))
}

// garbage is an answer that says nothing.
func (r *reply) garbage(b Broker, why error) *Error {
	return &Error{Outcome: Unknown, Status: r.status, Title: "ServiceBrokerResponseMalformed", Err: why,
		Message: fmt.Sprintf("The service broker '%s' returned an invalid response (status %d).", b.Name, r.status)}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
