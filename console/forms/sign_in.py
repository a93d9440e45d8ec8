"""The sign-in form."""

from wtforms import Form, HiddenField, PasswordField, StringField

from console.security import safe_next


class SignInForm(Form):
    """`code` and `password`, where to go on, and what was typed into another form before."""

    code = StringField()
    password = PasswordField()
    next = HiddenField()
    kept = HiddenField()

    def way_on(self) -> str | None:
        """Return where the person wanted to go, if that is a page here."""
        return safe_next(self.next.data)
