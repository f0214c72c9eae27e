package fault

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Code classifies an error. The values are Cloud Foundry's error names, so that
// the v3 API can use them directly; the other APIs translate them.
type Code string

// Package web maps these codes to statuses and numbers; a test fails if one is
// missing there.
const (
	Internal               Code = "UnknownError"
	BadRequest             Code = "BadRequest"
	MessageParse           Code = "MessageParseError"
	BadQuery               Code = "BadQueryParameter"
	InvalidToken           Code = "InvalidAuthToken"
	Unauthenticated        Code = "NotAuthenticated"
	Forbidden              Code = "NotAuthorized"
	FeatureDisabled        Code = "FeatureDisabled"
	UnknownRoute           Code = "NotFound"
	NotFound               Code = "ResourceNotFound"
	MethodNotAllowed       Code = "MethodNotAllowed"
	NotAcceptable          Code = "NotAcceptable"
	Conflict               Code = "Conflict"
	PreconditionFailed     Code = "PreconditionFailed"
	TooLarge               Code = "RequestTooLarge"
	UnsupportedMedia       Code = "UnsupportedMediaType"
	Unprocessable          Code = "UnprocessableEntity"
	NotUnique              Code = "UniquenessError"
	RateLimited            Code = "RateLimitExceeded"
	AddressRateLimited     Code = "IPBasedRateLimitExceeded"
	BrokerRateLimited      Code = "ServiceBrokerRateLimitExceeded"
	BadGateway             Code = "BadGateway"
	Unavailable            Code = "ServiceUnavailable"
	TaskWorkersUnavailable Code = "TaskWorkersUnavailable"
	InsufficientStorage    Code = "InsufficientStorage"
	InstanceBusy           Code = "AsyncServiceInstanceOperationInProgress"
	BindingBusy            Code = "AsyncServiceBindingOperationInProgress"
	NoInstances            Code = "InstancesError"
	NotEmpty               Code = "AssociationNotEmpty"
	StillShared            Code = "ServiceInstanceDeletionSharesExists"
	SameRoute              Code = "ServiceInstanceAlreadyBoundToSameRoute"
	BrokerNotRemovable     Code = "ServiceBrokerNotRemovable"
	BadBroker              Code = "ServiceBrokerBadResponse"
	DeployingScale         Code = "ScaleDisabledDuringDeployment"
	DeployingUpdate        Code = "ProcessUpdateDisabledDuringDeployment"
	DeployingStop          Code = "StopDisabledDuringDeployment"
)

// Error is an error with a message for the user.
type Error struct {
	Code Code
	// Message is shown to the user: what happened, why, what to do next. It
	// never contains secrets or internals.
	Message string
	// More holds further problems of the same request, each a complete message.
	More []string
	// Kind refines Code for one API, for example OAuth's error value. If it is
	// empty, the API derives it from Code.
	Kind string
	// Need lists scopes, one of which is required.
	Need []string
	// RetryAfter is when the caller may try again.
	RetryAfter time.Duration
	// Err is the cause, for the log only.
	Err error
}

// New returns an error whose message is formatted for the user.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an error with a code and a message for the user. The cause is
// available through errors.Is and errors.As and is never shown to the user.
func Wrap(err error, code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Err: err}
}

// Invalid combines the problems of one request. It returns nil when there are
// none, so that validation can end with `return fault.Invalid(problems...)`.
func Invalid(problems ...string) error {
	if len(problems) == 0 {
		return nil
	}
	return &Error{Code: Unprocessable, Message: problems[0], More: problems[1:]}
}

// WithKind returns a copy of e with the API-specific error value set.
func (e *Error) WithKind(kind string) *Error {
	c := *e
	c.Kind = kind
	return &c
}

// After returns a copy of e with the time after which the caller may try again.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// Messages returns Message followed by More.
func (e *Error) Messages() []string {
	return append([]string{e.Message}, e.More...)
}

// Error returns the code, all messages and the cause, for the log.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	b.WriteString(": ")
	b.WriteString(strings.Join(e.Messages(), "; "))
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the outermost *Error in err's chain, Internal for
// any other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// Is reports whether err carries code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }

// IsDiskFull reports whether the reason of an error is a disk, or a quota of one, that is full.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
