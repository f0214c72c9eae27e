package osb

import (
	"fmt"
	"net/http"
)

// Outcome classifies the result of a call.
type Outcome int

// The outcomes. Those from Refused on come with a *Error.
const (
	// Done: the broker has performed the request.
	Done Outcome = iota
	// Accepted: the broker performs the request asynchronously and has to be polled.
	Accepted
	// Working: the operation is still in progress.
	Working
	// Gone: the instance or binding does not exist, or not any more.
	Gone
	// Refused: the broker rejected the request.
	Refused
	// Busy: another operation on the same instance or binding is in progress.
	Busy
	// Unavailable: the request did not reach the broker.
	Unavailable
	// Unknown: the broker may or may not have performed the request.
	Unknown
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	return [...]string{"done", "accepted", "working", "gone", "refused", "busy", "unavailable", "unknown"}[o]
}

// Error is the error of a call.
type Error struct {
	Outcome Outcome
	// Title is Cloud Foundry's name of the error.
	Title string
	// Message is for users and contains no secrets.
	Message string
	// Status is the HTTP status, if there was a response.
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

// failure returns the error for a response that is not a success. outcome is that of
// responses from which it does not follow whether the request was performed.
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
			Message: fmt.Sprintf("Authentication with the service broker '%s' failed. Check the user name and password it was "+
				"registered with.", b.Name)}
	case r.status == http.StatusUnprocessableEntity && said.Error == "ConcurrencyError":
		return &Error{Outcome: Busy, Status: r.status, Title: "AsyncServiceInstanceOperationInProgress",
			Message: "The service broker rejected the request due to an operation being in progress for the service instance " +
				"or binding."}
	case r.status == http.StatusUnprocessableEntity && said.Error == "AsyncRequired":
		return &Error{Outcome: Refused, Status: r.status, Title: "AsyncRequired",
			Message: "This service plan requires client support for asynchronous service operations."}
	case r.status == http.StatusUnprocessableEntity && said.Error == "RequiresApp":
		return &Error{Outcome: Refused, Status: r.status, Title: "AppRequired",
			Message: "This service supports generation of credentials through binding an application only."}
	case r.status == http.StatusUnprocessableEntity && said.Error == "MaintenanceInfoConflict":
		return &Error{Outcome: Refused, Status: r.status, Title: "MaintenanceInfoConflict",
			Message: "The maintenance information of the plan has changed. Ask an administrator to update the broker's " +
				"catalog, then try again."}
	case r.status == http.StatusConflict:
		return &Error{Outcome: Refused, Status: r.status, Title: "ServiceBrokerConflict", Message: "Service broker error: " +
			orElse(words, "one with this id and other attributes already exists")}
	case r.status == http.StatusGone:
		return &Error{Outcome: Gone, Status: r.status, Title: "ServiceBrokerRequestRejected",
			Message: "Service broker error: " + orElse(words, "it does not exist any more")}
	case r.status >= 400 && r.status < 500:
		return &Error{Outcome: Refused, Status: r.status, Title: "ServiceBrokerRequestRejected",
			Message: "Service broker error: " + orElse(words, fmt.Sprintf("the request was rejected with status %d", r.status))}
	case r.status >= 500:
		return &Error{Outcome: Unknown, Status: r.status, Title: "ServiceBrokerBadResponse",
			Message: "Service broker error: " + orElse(words, fmt.Sprintf("the broker failed with status %d", r.status))}
	}
	return r.garbage(b, fmt.Errorf("status %d is not one of the expected", r.status))
}

// garbage returns the error for a response that cannot be understood.
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
