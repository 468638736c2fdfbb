//! The grammar's node kinds and fields, under our names.

use std::num::NonZeroU16;
use std::sync::OnceLock;

use crate::tree::{Flat, Vocabulary};

macro_rules! kinds {
    ($($variant:ident $name:literal $named:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Kind { $($variant,)* Error, Other }
        const KINDS: &[(&str, bool, Kind)] = &[$(($name, $named, Kind::$variant),)*];
    };
}

kinds! {
    Module "module" true, Block "block" true, Comment "comment" true,
    ExpressionStatement "expression_statement" true, Assert "assert_statement" true, Break "break_statement" true,
    Continue "continue_statement" true, Delete "delete_statement" true, Exec "exec_statement" true,
    Future "future_import_statement" true, Global "global_statement" true, ImportFrom "import_from_statement" true,
    Import "import_statement" true, Nonlocal "nonlocal_statement" true, Pass "pass_statement" true,
    Print "print_statement" true, Raise "raise_statement" true, Return "return_statement" true,
    TypeAlias "type_alias_statement" true, ClassDefinition "class_definition" true,
    Decorated "decorated_definition" true, Decorator "decorator" true, For "for_statement" true,
    Function "function_definition" true, If "if_statement" true, Elif "elif_clause" true, Else "else_clause" true,
    Match "match_statement" true, Case "case_clause" true, Try "try_statement" true, Except "except_clause" true,
    Finally "finally_clause" true, While "while_statement" true, With "with_statement" true,
    WithClause "with_clause" true, WithItem "with_item" true,
    AsPattern "as_pattern" true, AsTarget "as_pattern_target" true, Boolean "boolean_operator" true,
    Comparison "comparison_operator" true, Conditional "conditional_expression" true, Lambda "lambda" true,
    Named "named_expression" true, Not "not_operator" true, Attribute "attribute" true, Await "await" true,
    Binary "binary_operator" true, Call "call" true, ConcatenatedString "concatenated_string" true,
    Dictionary "dictionary" true, DictComp "dictionary_comprehension" true, Ellipsis "ellipsis" true,
    False "false" true, Float "float" true, Generator "generator_expression" true, Identifier "identifier" true,
    Integer "integer" true, List "list" true, ListComp "list_comprehension" true, ListSplat "list_splat" true,
    None "none" true, Parenthesized "parenthesized_expression" true, Set "set" true, SetComp "set_comprehension" true,
    String "string" true, Subscript "subscript" true, True "true" true, Tuple "tuple" true, Unary "unary_operator" true,
    Assignment "assignment" true, Augmented "augmented_assignment" true, Yield "yield" true,
    PatternList "pattern_list" true, ListPattern "list_pattern" true, TuplePattern "tuple_pattern" true,
    SplatPattern "list_splat_pattern" true, DictSplatPattern "dictionary_splat_pattern" true,
    CaseSplat "splat_pattern" true, ExpressionList "expression_list" true, ArgumentList "argument_list" true,
    Keyword "keyword_argument" true, DictSplat "dictionary_splat" true, Pair "pair" true,
    ForIn "for_in_clause" true, IfClause "if_clause" true, Parameters "parameters" true,
    LambdaParameters "lambda_parameters" true, DefaultParameter "default_parameter" true,
    TypedParameter "typed_parameter" true, TypedDefault "typed_default_parameter" true, Type "type" true,
    TypeParameter "type_parameter" true, DottedName "dotted_name" true, AliasedImport "aliased_import" true,
    RelativeImport "relative_import" true, Wildcard "wildcard_import" true, CasePattern "case_pattern" true,
    ClassPattern "class_pattern" true, KeywordPattern "keyword_pattern" true, DictPattern "dict_pattern" true,
    UnionPattern "union_pattern" true, Interpolation "interpolation" true, StringContent "string_content" true,
    StringStart "string_start" true, Slice "slice" true, Chevron "chevron" true, GenericType "generic_type" true,
    UnionType "union_type" true, MemberType "member_type" true, SplatType "splat_type" true,
    ConstrainedType "constrained_type" true, FormatSpecifier "format_specifier" true, Escape "escape_sequence" true,
}

macro_rules! fields {
    ($($variant:ident $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Field { $($variant,)* Nothing }
        const FIELDS: &[(&str, Field)] = &[$(($name, Field::$variant),)*];
    };
}

fields! {
    Alias "alias", Alternative "alternative", Argument "argument", Arguments "arguments", Attribute "attribute",
    Body "body", Cause "cause", Condition "condition", Consequence "consequence", Definition "definition",
    Expression "expression", Function "function", Guard "guard", Key "key", Left "left", ModuleName "module_name",
    Name "name", Object "object", Operator "operator", Parameters "parameters", ReturnType "return_type",
    Right "right", Subject "subject", Subscript "subscript", Superclasses "superclasses", Type "type",
    TypeParameters "type_parameters", Value "value",
}

pub(super) struct Words {
    kinds: Vec<Option<Kind>>,
    fields: Vec<Field>,
}

impl Vocabulary for Words {
    type Kind = Kind;
    type Field = Field;

    fn kind(&self, id: u16) -> Option<Kind> {
        if id == u16::MAX {
            return Some(Kind::Error);
        }
        self.kinds.get(usize::from(id)).copied().flatten()
    }

    fn field(&self, id: Option<NonZeroU16>) -> Field {
        id.and_then(|id| self.fields.get(usize::from(id.get()))).copied().unwrap_or(Field::Nothing)
    }
}

pub(super) type Tree = Flat<Words>;

pub(super) fn grammar() -> tree_sitter::Language {
    tree_sitter_python::LANGUAGE.into()
}

pub(super) fn words() -> &'static Words {
    static WORDS: OnceLock<Words> = OnceLock::new();
    WORDS.get_or_init(|| {
        let grammar = grammar();
        let kinds = (0..grammar.node_kind_count() as u16)
            .map(|id| {
                let name = grammar.node_kind_for_id(id)?;
                if !grammar.node_kind_is_named(id) {
                    return None;
                }
                Some(KINDS.iter().find(|(known, ..)| *known == name).map_or(Kind::Other, |(.., kind)| *kind))
            })
            .collect();
        let fields = (0..=grammar.field_count() as u16)
            .map(|id| {
                let name = grammar.field_name_for_id(id).unwrap_or("");
                FIELDS.iter().find(|(known, _)| *known == name).map_or(Field::Nothing, |(_, field)| *field)
            })
            .collect();
        Words { kinds, fields }
    })
}
