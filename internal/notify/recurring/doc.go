// Package recurring sends what is to be sent at the times of a cron expression.
//
// Each occurrence is an ordinary send. The store accepts it and moves the
// recurring send on in one transaction, so there is one send for each
// occurrence, however many servers try it and whenever they are killed.
//
// Imports: base/background, base/fault, notify, notify/actions, notify/cron.
package recurring
