// Package prefer is the form in which users choose the notifications that they receive: kinds by channel, topics, and
// quiet hours. The page of the link in mails and the console show it.
//
// Form shows what GET /preferences answers, and Read makes the body of PATCH /preferences from what is sent.
//
// It must not import a wing.
//
// Imports: base/fault.
package prefer
